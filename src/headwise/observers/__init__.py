"""The questions that can be asked of a pattern, each with its definition and its answer from tiles."""

from headwise.observers.groups import MassOn, MassWhere, Segments
from headwise.observers.keys import Contribution, Contributions, Offsets, Received, TopKeys, TopKeysFound
from headwise.observers.protocol import Accumulator, Answered, Frame, Observer, Tile, Whole, named, start
from headwise.observers.regions import Crop, Map
from headwise.observers.rows import Entropy, LogSumExp, MaxLogit

__all__ = [
    "Accumulator",
    "Answered",
    "Contribution",
    "Contributions",
    "Crop",
    "Entropy",
    "Frame",
    "LogSumExp",
    "Map",
    "MassOn",
    "MassWhere",
    "MaxLogit",
    "Observer",
    "Offsets",
    "Received",
    "Segments",
    "Tile",
    "TopKeys",
    "TopKeysFound",
    "Whole",
    "named",
    "start",
]
