#compdef moire
# completion for moire(1) in zsh: the command itself says what can stand next (`moire help --complete WORD...`).
_moire() {
    local found
    local -a names
    while IFS= read -r found; do
        case $found in
        :file) _files ;;
        :folder) _files -/ ;;
        *) names+=("$found") ;;
        esac
    done < <("${words[1]}" help --complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)
    (( $#names )) && compadd -a names
}
if [ "$funcstack[1]" = _moire ]; then _moire "$@"; else compdef _moire moire; fi
