"""What is simulated for JoMA: claims and experiments call it."""
