"""The paper's figures: ``run`` measures, ``plot`` draws; they meet only through files."""
