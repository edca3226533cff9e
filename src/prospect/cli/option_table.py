"""Every option, once: parsing, ``--help``, the manual and the documentation read this table.

Letters and meanings are those of Prospect 0.9 (Tsariounov, OLS 2002); the long names are ours.
"""

from __future__ import annotations

from prospect.cli.commands import COMMANDS
from prospect.cli.option import Option
from prospect.cli.option_tables.choosing import CHOOSING
from prospect.cli.option_tables.code import CODE
from prospect.cli.option_tables.counting import COUNTING
from prospect.cli.option_tables.naming import NAMING
from prospect.cli.option_tables.output import OUTPUT
from prospect.cli.option_tables.sampling import SAMPLING, STORING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.cli.commands import Command

OPTIONS = (
    *SAMPLING,
    *OUTPUT,
    *NAMING,
    *COUNTING,
    *CODE,
    *CHOOSING,
    *STORING,
    Option("help", "h", ("help",), "", "show this help", tuple(c.name for c in COMMANDS)),
    Option("version", "", ("version",), "", "show the version", ("",)),
)


def options_of(command: Command) -> list[Option]:
    """Return the options that a command takes, in the order of its help."""
    return [option for option in OPTIONS if command.name in option.commands]
