"""Common words whose mean vector is what all words have in common, and so says nothing of any of them.

Taken away from each, it leaves what tells words apart (Mu and Viswanath, All-but-the-Top, 2018). A fixed list does as
well as the mean over a memory's own words, and then a vector depends on its word alone.
"""

from __future__ import annotations

_IN_ENGLISH = """
age air animal answer area art ask back bad begin big black blue body book boy bread break bright bring build
business busy buy call car care carry case change city clean close cold colour community company cook cut dance
dark day deep different doctor door draw drive early easy eat education empty end eye face fact family far fast
fear feel find finish fix fly food foot force free friend full game garden girl give good government green group
grow guy hand happy hard hate head health hear heavy help high history hold holiday home hope hot hour house
idea important information issue job keep kind know language late law leave letter level life light like line
listen local long look lose lot loud love low machine make man market meet member minute moment money month
morning mother move music name national near need new night number office old open paint pair paper parent part
party pay people person place plan plant play point policy poor possible power president price problem program
public question quiet read ready reason receive red remember research rich river road room run sad save say
school see sell send service short show sick side simple sing sister sleep slow small soft song special speak
spend stand start state stay stop story street strong student study summer sure swim system table take talk
teach teacher team tell test thing think time town travel tree trip true try turn understand use visit voice
wait walk want war warm wash watch water weak wear weather week white wide win window winter woman word work
world write year young
"""
COMMON_WORDS = tuple(_IN_ENGLISH.split())
