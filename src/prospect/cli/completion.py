"""``prospect completion``: write a shell's script that completes commands, options and values.

A command that is profiled is completed as it would be without Prospect before it.
"""

from __future__ import annotations

from prospect.cli.commands import COMMANDS, DIFF, SUBCOMMANDS
from prospect.cli.option_table import options_of
from prospect.cli.terminal import show
from prospect.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from prospect.cli.commands import Command
    from prospect.cli.option_table import Option
    from prospect.options import Settings

_INDENT = " " * 20
SHELLS = ("bash", "zsh", "fish")

_BASH = """\
# Completion of prospect for bash.
_prospect() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    local command= at=1
    case ${{COMP_WORDS[1]}} in
        {names}) command=${{COMP_WORDS[1]}} at=2 ;;
    esac
    local options with_value
    case $command in
{cases}
    esac
    local profiles=
    case $command in
        {runners}) profiles=yes ;;
    esac
    # Past the first word that is no option, the words of a command that is run begin.
    while [ $at -lt $COMP_CWORD ]; do
        case ${{COMP_WORDS[at]}} in
            --) at=$((at + 1)); break ;;
            -*)
                case " $with_value " in
                    *" ${{COMP_WORDS[at]}} "*) at=$((at + 1)) ;;
                esac ;;
            *) [[ $profiles ]] && break ;;
        esac
        at=$((at + 1))
    done
    case " $with_value " in
        *" $before "*)
            if [ $at -gt $COMP_CWORD ]; then
                case $command:$before in
{values}
                    *) COMPREPLY=($(compgen -f -- "$word")) ;;
                esac
                return
            fi ;;
    esac
    if [ $at -lt $COMP_CWORD ] && [[ $profiles ]]; then
        if type _command_offset >/dev/null 2>&1; then
            _command_offset $at
        else
            COMPREPLY=($(compgen -f -- "$word"))
        fi
        return
    fi
    case $word in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
        *)
            case $command in
                "") COMPREPLY=($(compgen -c -- "$word"))
                    [ $COMP_CWORD -eq 1 ] && COMPREPLY+=($(compgen -W "{words}" -- "$word")) ;;
                {runners}) COMPREPLY=($(compgen -c -- "$word")) ;;
                help) COMPREPLY=($(compgen -W "{words}" -- "$word")) ;;
                completion) COMPREPLY=($(compgen -W "{shells}" -- "$word")) ;;
                {readers})
                    COMPREPLY=($(compgen -f -- "$word" | grep -E '[.](data|archive)$'))
                    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word")) ;;
            esac ;;
    esac
}}
complete -o filenames -F _prospect prospect
"""


def run(_settings: Settings, words: list[str], _command_line: tuple[str, ...]) -> int:
    """Show the script for a shell.

    Raises:
        UsageError: there is no script for it.
    """
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError(f"completion: give a shell: {', '.join(SHELLS)}")
    show({"bash": bash, "zsh": zsh, "fish": fish}[words[0]]())
    return 0


def bash() -> str:
    """Return the script for bash."""
    return _BASH.format(
        names="|".join(command.name for command in SUBCOMMANDS),
        words=" ".join(command.name for command in SUBCOMMANDS),
        shells=" ".join(SHELLS),
        runners="|".join(command.name or '""' for command in COMMANDS if command.runs_another),
        readers="|".join(command.name for command in SUBCOMMANDS if _reads_files(command)),
        cases="\n".join(_case(command) for command in COMMANDS),
        values="\n".join(
            f'{_INDENT}{command.name}:{spelling}) COMPREPLY=($(compgen -W "{words}" -- "$word")) ;;'
            for command in COMMANDS
            for option in options_of(command)
            if (words := " ".join(_values(option)))
            for spelling in option.spellings
        ),
    )


def zsh() -> str:
    """Return the script for zsh, which reads bash's."""
    return f"#compdef prospect\nautoload -U +X bashcompinit && bashcompinit\n{bash()}"


def fish() -> str:
    """Return the script for fish."""
    lines = ["# Completion of prospect for fish."]
    names = " ".join(command.name for command in SUBCOMMANDS)
    none = f"not __fish_seen_subcommand_from {names}"
    lines += [
        f"complete -c prospect -n '{none}' -a {command.name} -d {_quoted(command.summary)}"
        for command in SUBCOMMANDS
    ]
    for command in COMMANDS:
        where = f"__fish_seen_subcommand_from {command.name}" if command.name else none
        for option in options_of(command):
            parts = [f"complete -c prospect -n '{where}'"]
            for spelling in option.spellings:
                name = spelling.lstrip("-")
                parts.append(f"-l {name}" if spelling.startswith("--") else f"-s {name}")
            parts += ["-r"] * bool(option.check)
            if values := _values(option):
                parts.append(f"-x -a '{' '.join(values)}'")
            lines.append(" ".join([*parts, f"-d {_quoted(option.help)}"]))
    return "\n".join(lines) + "\n"


def _case(command: Command) -> str:
    options = options_of(command)
    spellings = " ".join(s for option in options for s in option.spellings)
    with_value = " ".join(s for option in options if option.check for s in option.spellings)
    return f'        "{command.name}") options="{spellings}" with_value="{with_value}" ;;'


def _reads_files(command: Command) -> bool:
    return "FILE" in command.operands or command is DIFF


def _values(option: Option) -> list[str]:
    """Return the words that complete a value."""
    if option.words:
        return list(option.words)
    words = option.metavar.split("|")
    return words if len(words) > 1 and all(word == word.lower() for word in words) else []


def _quoted(text: str) -> str:
    """Quote for fish, in whose single quotes a backslash escapes a quote."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
