"""On paper: one result, one function. numpy arrays in and out, float64."""
