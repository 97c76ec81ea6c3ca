"""What is trained for Feature extraction: claims and experiments call it."""
