"""`python -m tests.sim --seed N --trace`: play one story again, or many.

Ends with 1 when a story failed, and says how to play that one again.
"""

import argparse
import sys

from tests.sim.mutants import MUTANTS, mutated
from tests.sim.story import replay_command, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim")
    parser.add_argument("--seed", type=int, help="play this story")
    parser.add_argument("--seeds", type=int, default=100, help="play so many stories")
    parser.add_argument("--first", type=int, default=0, help="of which this is the first")
    parser.add_argument("--trace", action="store_true", help="say what happens, step by step")
    parser.add_argument("--mutant", choices=MUTANTS, help="with this mistake built in")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    failed = 0
    with mutated(options.mutant):
        for seed in seeds:
            outcome = run(seed, trace=print if options.trace else None)
            if outcome.failures or len(seeds) == 1:
                print(outcome)
            if outcome.failures:
                failed += 1
                print(f"  play it again: {replay_command(seed, options.mutant)}")
    print(f"{failed} of {len(seeds)} stories failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
