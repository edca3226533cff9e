"""User registers, stack copies and call-frame rows → call chains, by whole columns."""
