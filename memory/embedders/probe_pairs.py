"""Probe pairs: questions and the statements that answer them, by which an unknown embedder gets a profile.

No pair shares a word that says what it is about. How near an embedder puts the two of a pair, and how near a question
and the nearest statement of another pair, say how much its cosines may weigh and from where on they prove something.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.profile import UNKNOWN_PROFILE, EmbedderProfile

PROBE_PAIRS: Final = (
    ("Where do I live?", "We rent a flat in Porto, third floor."),
    ("What is my job?", "I work as a nurse on the night shift."),
    ("How do I get to the office?", "I cycle to work along the canal."),
    ("What can't my son eat?", "Leo is allergic to peanuts."),
    ("When does the baby arrive?", "Our daughter is due on 4 March."),
    ("Which instrument do I play?", "Cello lessons are on Tuesday evening."),
    ("Who looks after my teeth?", "Dr Weber is our dentist."),
    ("What do we owe the bank?", "The mortgage is 180,000 euros."),
    ("Where is the spare key?", "A second set hangs behind the boiler."),
    ("What is the code for the internet?", "The wifi password is plum-tree-9."),
    ("Which pet do we have?", "Our cat Miso is four years old."),
    ("What is wrong with my back?", "The doctor found a slipped disc."),
    ("How much do I pay for the flat?", "The rent went up to 950 a month."),
    ("Where are we going in summer?", "Booked two weeks by the sea in Crete."),
    ("Who is in charge of my team?", "My manager is called Priya."),
    ("What did I cook for the party?", "I made lasagne for twelve guests."),
    ("Do I still smoke?", "A hundred days without a cigarette."),
    ("Which vehicle do I drive?", "Bought a second-hand Toyota."),
    ("What does Mum want for Christmas?", "Mother would like a new kettle."),
    ("How tall is the boy now?", "Leo measured 1.32 metres at the check-up."),
    ("When does the shop open?", "The bakery starts selling at six in the morning."),
    ("What broke in the kitchen?", "The dishwasher leaks again."),
    ("Which sport do I do?", "I go climbing twice a week."),
    ("Who won the match?", "Our girls beat Bremen 3 to 1."),
    ("What is my brother studying?", "Jonas is reading law in Vienna."),
    ("Which film did we see?", "The documentary about whales was long and lovely."),
    ("Why was the train late?", "A tree had fallen on the line."),
    ("What colour is the bedroom?", "We painted the walls pale green."),
    ("How many people come to dinner?", "Six guests for Saturday night."),
    ("What should the vet check?", "The dog limps on her left hind leg."),
    ("Wie heißt meine Schwester?", "Meine kleine Schwester ist die Greta."),
    ("¿Qué bebo por la mañana?", "Siempre tomo café con leche al despertar."),
)
PROBE_TEXTS: Final = (*(question for question, _ in PROBE_PAIRS), *(statement for _, statement in PROBE_PAIRS))
"""The questions, then the statements in the same order."""
_MIN_ORDERED: Final = 0.85
"""Share of the comparisons between a question's own statement and another one that the own one must win. Of a random
embedder it is one half, of hashed words .54, of static vectors and sentence encoders .94 to .99."""
_NARROW_BASE: Final = 0.15
"""Median cosine of unrelated texts from which cosines lie in a narrow band, and count from there."""
_NOTES_WEIGHT: Final = 0.9
"""Two thirds of what the sentence encoder's own profile has: rather too little than too much."""


def measured_profile(questions: NDArray[np.float32], statements: NDArray[np.float32]) -> EmbedderProfile:
    """Return the conservative profile of an embedder by its vectors of the probes, of length 1, a row a probe.

    An embedder that does not tell the pairs apart gets the profile of an unknown one.
    """
    cosines = np.asarray(questions, np.float64) @ np.asarray(statements, np.float64).T
    own = np.diag(cosines)
    others = cosines[~np.eye(len(own), dtype=bool)].reshape(len(own), -1)
    if float((own[:, None] > others).mean()) < _MIN_ORDERED:
        return UNKNOWN_PROFILE
    median = float(np.median(others))
    base = round(median, 3) if median >= _NARROW_BASE else 0.0
    unrelated = (float(np.median(others.max(axis=1))) - base) / (1 - base)
    return EmbedderProfile(notes=_NOTES_WEIGHT, unrelated=round(unrelated, 3), base=base)
