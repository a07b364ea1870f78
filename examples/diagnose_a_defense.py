"""A defense that only looks robust: what its numbers say, what the diagnosis says, and what an adaptive attack finds.

``robustatlas diagnose examples/broken_defenses/discrete_steps.py:eight_levels --data digits`` diagnoses it too.
The other defenses of that folder, and the sound networks beside them, load in the same way.
"""

from pathlib import Path

import robustatlas as ra

if __name__ == "__main__":
    source = f"{Path(__file__).parent}/broken_defenses/discrete_steps.py:eight_levels"
    data = ra.load_dataset("digits")
    defense = ra.load_model(source, name="pixels of 8 levels")
    attacked = ra.load_model(source, arguments={"attacked": True}, name="the same, with a gradient")
    print(ra.diagnose(defense, data, samples=40))
    for model in (defense, attacked):
        print(ra.evaluate(model, data, "linf", samples=20, diagnose=False))
