# One line of progress from pip's output: the packages so far of all, then errors as they are.
/^(Collecting|Requirement already satisfied:)/ {
  sub(/^(Collecting|Requirement already satisfied:) /, ""); sub(/ .*/, "")
  printf "\r\033[K  %d of %d: %s", ++count, total, $0; fflush(); next
}
/^Installing collected packages/ { printf "\r\033[K  unpacking %d packages …", count; fflush(); next }
/^Successfully installed/ { printf "\r\033[K"; next }
/^(ERROR|WARNING|error)/ { printf "\n%s\n", $0; fflush(); next }
