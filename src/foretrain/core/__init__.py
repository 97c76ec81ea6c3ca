"""What everything else stands on: errors, random streams, files, trajectories, provenance, workers."""
