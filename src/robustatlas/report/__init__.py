"""Everything that a person looks at: what can be said of runs, pages, boards, cards, exports and gates."""
