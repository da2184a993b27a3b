# completion for moire(1) in bash (moire.zsh: in zsh).  The command itself
# says what can stand next (`moire help --complete WORD...`): verbs, their commands, flags, their values, and the names
# of models, scenarios, machines, policies and planners that there are now.
_moire() {
    local cur=${COMP_WORDS[COMP_CWORD]} found name
    [ "$cur" = "=" ] && cur=
    COMPREPLY=()
    while IFS= read -r found; do
        case $found in
        :file) while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$cur") ;;
        :folder) while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -d -- "$cur") ;;
        *) COMPREPLY+=("$found") ;;
        esac
    done < <("${COMP_WORDS[0]}" help --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o filenames -F _moire moire
