"""After a reset values of another width made only their buffer anew; keys that were handed out were then overwritten
without a word, and a Pattern over them went on as valid.
"""

import torch

from headwise.nn import StaticCache


def test_keys_that_were_handed_out_stay_or_say_that_they_were_written() -> None:
    for widths in ((4, 6), (6, 4), (6, 6), (4, 4)):
        cache = StaticCache(8)
        handed = cache.append(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))
        then = [(x.clone(), x._version) for x in handed]
        cache.reset()
        cache.append(*(torch.randn(1, 2, 5, width) for width in widths))
        for x, (numbers, version) in zip(handed, then, strict=True):
            assert torch.equal(x, numbers) or x._version > version
