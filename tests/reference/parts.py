"""Parts of bundles, plainly: the best ones for tiny bundles, and how any are numbered."""

from .partitions import COVERS, all_partitions, partition_cost


def best_division(trajectories, bundles, least, height, cover, *, per_instant):
    """Return the least cost of any division of bundles into parts of at least ``least``.

    ``bundles`` are lists of members. Per instant, each instant is divided on its own.
    """
    if per_instant:
        return sum(
            best_division(
                [[trajectory[i]] for trajectory in trajectories],
                bundles,
                least,
                height,
                cover,
                per_instant=False,
            )
            for i in range(len(trajectories[0]))
        )
    return sum(
        min(
            partition_cost(trajectories, groups, height, cover)
            for groups in all_partitions(members, least)
        )
        for members in bundles
    )


def number_parts(trajectories, groups, height, cover, instants):
    """List the parts of a bundle in the order in which they are numbered.

    ``groups`` are lists of members, who are together at ``instants``. A part is its rectangle at
    each of these instants (least x and y, and the ends of both), and how many members it has.
    """
    parts = []
    for members in groups:
        rectangles = []
        for instant in instants:
            points = [trajectories[member][instant] for member in members]
            x, y, width, tall = COVERS[cover](points, height)
            rectangles.append((x, y, x + width, y + tall))
        parts.append((rectangles, len(members)))
    return sorted(parts)
