"""README, pages of the site, references and the notebook: what they tell works."""
