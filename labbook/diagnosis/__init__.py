"""From what a run left behind to what went wrong: reading text, the catalogue of symptoms, matching, ranking."""
