"""Where the attempts of a run at a commit leave what they have: folders in the run folder.

Each attempt has a folder named by its write id, but for reassignments: below the write id of the run, each
is a run by itself.
"""

from __future__ import annotations

ADOPTIONS = "adopt/attempts"
APPENDS = "append/attempts"
COMPACTIONS = "compact/attempts"
DELETIONS = "delete/attempts"
MARGINS = "margin/attempts"
REASSIGNMENTS = "reassign"
