"""A page about one watched training: what its curves do, in words and figures. It draws results and computes none."""
