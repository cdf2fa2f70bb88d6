"""Write path: validate, authorize, apply the policies, embed, commit and report; corrections, undo, recovery."""
