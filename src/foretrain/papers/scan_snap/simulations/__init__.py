"""What is simulated for Scan and Snap: claims and experiments call it."""
