"""Sources of models, and any model as one thing, the Classifier; architectures and defenses."""
