"""What makes parts of the documentation: references and pictures."""
