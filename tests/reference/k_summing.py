"""The optimum k-summing configuration, from Definitions 3 to 5 and Algorithm 1.

A configuration is a dict from a node's number to how many trajectories the node
passes up. Costs are exact integers, in cells.

The program tries every value 0..d(m) at every node: no bound on what is passed
up, no pruning. It departs from the letter of Algorithm 1 in one point. Lines 16
to 19 let a node pass up any u in F(m) = [0..d(m)-k] or d(m), whatever its
children pass up; so a node could anonymize between 1 and k-1 trajectories, or a
negative number. Definition 5 (iii) and (iv) forbid this, and it is Definition 5
that is implemented.
"""

from .tree import path_to_root


def solve(tree, k):
    """Return the cost of an optimum complete configuration, and the configuration."""
    table = _fill_table(tree, k)
    if 0 not in table[tree.root.number]:
        raise ValueError(f"{tree.root.d} trajectories have no complete {k}-summing configuration")
    cost = table[tree.root.number][0][0]
    return cost, _read_configuration(tree, table, 0)


def solve_with_suppression(tree, k, price):
    """Minimise the cost plus price times the number that the root passes up.

    Returns this total and the configuration, which need not be complete. Of equal
    totals, the one with the fewest trajectories passed up by the root is taken.
    """
    table = _fill_table(tree, k)
    root_row = table[tree.root.number]
    total, passed_up = min((cost + price * u, u) for u, (cost, _) in root_row.items())
    return total, _read_configuration(tree, table, passed_up)


def cost_rows(tree, k):
    """List for each node its row: a dict from u to the least cost of passing up u."""
    table = _fill_table(tree, k)
    return [{u: cost for u, (cost, _) in table[node.number].items()} for node in tree.nodes]


def is_configuration(tree, configuration):
    """Check Definition 3."""
    if set(configuration) != {node.number for node in tree.nodes}:
        return False
    return all(
        0 <= configuration[node.number] <= arriving(node, configuration) for node in tree.nodes
    )


def is_complete(tree, configuration):
    """Check the end of Definition 3: the root passes nothing up."""
    return configuration[tree.root.number] == 0


def is_k_summing(tree, configuration, k):
    """Check Definition 5 (and 3)."""
    if not is_configuration(tree, configuration):
        return False
    for node in tree.nodes:
        delta = arriving(node, configuration)
        passed_up = configuration[node.number]
        if delta < k:
            if passed_up != delta:
                return False
        elif not (passed_up == delta or passed_up <= delta - k):
            return False
    return True


def configuration_cost(tree, configuration):
    """Add up Definition 4."""
    return sum(anonymized(node, configuration) * node.area for node in tree.nodes)


def configuration_of(tree, assignment):
    """Derive the configuration of an assignment of trajectories to nodes.

    ``assignment[t]`` is the number of the node that anonymizes trajectory t, or
    None where t is suppressed. C(m) counts the trajectories masked by m that are
    anonymized neither at m nor at a descendant of m.
    """
    configuration = {node.number: 0 for node in tree.nodes}
    at_or_above = []
    for trajectory, number in enumerate(assignment):
        if number is None:
            at_or_above.append(set())
            continue
        if trajectory not in tree.nodes[number].masked:
            raise ValueError(f"node {number} does not mask trajectory {trajectory}")
        at_or_above.append({node.number for node in path_to_root(tree.nodes[number])})
    for node in tree.nodes:
        for trajectory in node.masked:
            if node.number not in at_or_above[trajectory]:
                configuration[node.number] += 1
    return configuration


def arriving(node, configuration):
    """Count the trajectories that a node may anonymize: Δ, or d(m) for a leaf."""
    if node.is_leaf:
        return node.d
    return sum(configuration[child.number] for child in node.children)


def anonymized(node, configuration):
    """Count the trajectories that a node anonymizes: f(m, C) of Definition 4."""
    return arriving(node, configuration) - configuration[node.number]


def _fill_table(tree, k):
    """Fill the matrix M: for each node, u -> (least cost, what each child passes up)."""
    if k < 1:
        raise ValueError("k is at least 1")
    table = {}
    for node in reversed(tree.nodes):
        if node.is_leaf:
            choices = {node.d: (0, ())}
        else:
            choices = {0: (0, ())}
            for child in node.children:
                choices = _combine(choices, table[child.number])
        row = {}
        for delta, (cost, parts) in choices.items():
            allowed = {delta} | set(range(delta - k + 1))
            for u in allowed:
                candidate = (cost + node.area * (delta - u), parts)
                if u not in row or candidate[0] < row[u][0]:
                    row[u] = candidate
        table[node.number] = row
    return table


def _combine(choices, child_row):
    """Add one child: all sums of what may be passed up, each at its least cost."""
    combined = {}
    for delta, (cost, parts) in choices.items():
        for u, (child_cost, _) in child_row.items():
            candidate = (cost + child_cost, (*parts, u))
            if delta + u not in combined or candidate[0] < combined[delta + u][0]:
                combined[delta + u] = candidate
    return combined


def _read_configuration(tree, table, passed_up_by_root):
    configuration = {tree.root.number: passed_up_by_root}
    for node in tree.nodes:
        _, parts = table[node.number][configuration[node.number]]
        for child, u in zip(node.children, parts, strict=True):
            configuration[child.number] = u
    return configuration
