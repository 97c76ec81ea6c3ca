"""Feature extraction: what text classifiers rely on, seen through their tangent kernels."""
