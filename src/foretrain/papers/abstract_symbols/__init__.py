"""Abstract symbols: template tasks, an exact transformer kernel, two trainable identity scalings per head."""
