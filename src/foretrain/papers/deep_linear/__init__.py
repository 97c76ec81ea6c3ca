"""Deep linear networks: training dynamics with an exact solution. The worked example of docs/add-a-paper.md."""
