"""What is believed of the parameters after outcomes were seen, in four ways."""
