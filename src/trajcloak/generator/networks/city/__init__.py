JUNCTIONS = 20_000
FEWEST_JUNCTIONS = 2_000
MOST_JUNCTIONS = 100_000
def build_city(junctions): raise NotImplementedError
