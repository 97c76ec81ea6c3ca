"""Many settings of one experiment: grids as people write them, and sweeps over them."""
