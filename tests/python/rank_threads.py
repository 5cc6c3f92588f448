"""Ranks that are threads of this process."""

import threading

LIMIT_S = 60


def run_threads(size, rank_main):
    """Runs rank_main(rank) in a thread for each rank; none may hang."""
    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"


def raise_first(raised, lost):
    """Raises the exception of a rank, preferring one that is not of class `lost`, which reports the
    loss of another rank."""
    if raised:
        raise next((error for error in raised if not isinstance(error, lost)), raised[0])
