"""What is trained for Abstract symbols: claims and experiments call it."""
