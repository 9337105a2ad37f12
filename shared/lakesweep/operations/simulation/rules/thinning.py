"""Fewer points of a line: those that are left are points of it, and show its shape."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def thinned_steps(points: Sequence[T], height: Callable[[T], int], most: int) -> tuple[T, ...]:
    """Return the first, the last and the first point at each of equally distant heights of a line that never falls.

    Args:
        points: All points.
        height: The height of a point.
        most: Return at most this many, at least two.
    """
    if len(points) <= most:
        return tuple(points)
    low, high = height(points[0]), height(points[-1])
    found = [points[0]]
    level = 0
    for point in points[1:-1]:
        at = (height(point) - low) * (most - 2) // max(high - low, 1)
        if at > level:
            found.append(point)
            level = at
    return (*found[: most - 1], points[-1])


def thinned_peaks(points: Sequence[T], height: Callable[[T], int], most: int) -> tuple[T, ...]:
    """Return the highest point of each of equally long parts of a line.

    Args:
        points: All points.
        height: The height of a point.
        most: Return at most this many.
    """
    if len(points) <= most:
        return tuple(points)
    starts = [number * len(points) // most for number in range(most + 1)]
    return tuple(max(points[start:end], key=height) for start, end in pairwise(starts) if start < end)
