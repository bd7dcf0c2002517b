"""Members that repel each other: in weight, function, feature and input-gradient space."""
