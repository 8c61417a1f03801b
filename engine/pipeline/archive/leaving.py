"""A transport forgets a topic: how far its logs were read says nothing of those that it may have there again.

Without it the first message of the next life would be told as what the one before had lost, though all of that was
archived.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.bus import Extent
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import Act, Commit, LakeState, TopicCommit
from engine.pipeline.source.planning import Loss, Why, plan
from engine.pipeline.source.reached import NOTHING


def forget_logs(lake: Lake, topic: str, extents: Sequence[Extent], *, archived: bool = False) -> bool:
    """What is told here as it was last are logs that are gone for good. What was not read of them by now is a loss, and
    they begin from nothing. Whether there is anything to tell: of a topic that is ``archived`` there is of each log
    that was ever given something, of another one of those alone that the lake knows.

    A run that has planned to read them finds that its topic went on. Raises ``OSError`` and
    :class:`~engine.pipeline.lake.errors.LakeDamaged`.
    """
    if not _said(lake.state(), topic, extents, archived).reached:
        return False

    def make(state: LakeState) -> Commit:
        return lake.following(state, Act.LEAVING, topics={topic: _said(state, topic, extents, archived)})

    lake.publish(make)
    return True


def _said(state: LakeState, topic: str, extents: Sequence[Extent], archived: bool) -> TopicCommit:
    known = state.reached(topic)
    there = [
        extent for extent in extents if known.get(extent.log, NOTHING) != NOTHING or (archived and bool(extent.last))
    ]
    planned = plan(known, there)
    unread = [Loss(each.log, Why.EMPTIED, each.after, "", each.messages) for each in planned.portions]
    return TopicCommit({extent.log: NOTHING for extent in there}, [*planned.losses, *unread])
