# bash completion for moire(1): verbs, their commands, the flags of a command and the values that these can
# have, all as `moire help --words` says; files where it says nothing.
_moire() {
    local cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} command=${COMP_WORDS[2]} words choices
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$(moire --help 2>/dev/null | awk '/^  [a-z]/ {print $1}') help --help --version"
        COMPREPLY=($(compgen -W "$words" -- "$cur"))
        return
    fi
    [ "$COMP_CWORD" -eq 2 ] && command=
    words=$(moire help --words "$verb" $command 2>/dev/null)
    choices=$(awk -v flag="${COMP_WORDS[COMP_CWORD-1]}" '$1 == flag {$1 = ""; print}' <<<"$words")
    if [ -n "$choices" ] && [[ $choices != *VALUE* ]]; then
        COMPREPLY=($(compgen -W "$choices" -- "$cur"))
    elif [ -z "$choices" ] && [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(awk '/^-/ {print $1}' <<<"$words")" -- "$cur"))
    elif [ -z "$choices" ] && [ "$COMP_CWORD" -eq 2 ]; then
        COMPREPLY=($(compgen -W "$(awk '/^[a-z]/ {print $1}' <<<"$words")" -- "$cur") $(compgen -f -- "$cur"))
    else
        COMPREPLY=($(compgen -f -- "$cur"))
    fi
}
complete -o filenames -F _moire moire
