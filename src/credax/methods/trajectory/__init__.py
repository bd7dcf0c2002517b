"""Networks and moments collected along one network's training."""
