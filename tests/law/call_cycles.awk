# The largest set of files each of which calls, through others of them, all the
# rest. Input: what nm prints for object files, "name.o:" before each. Prints one
# line, "N: names", and with -v most=N fails when there are more than so many.

/:$/ {
  file = $0
  sub(/:$/, "", file)
  sub(/.*\//, "", file)
  sub(/\.c\.o$/, ".c", file)
  files[++n] = file
  next
}
NF == 3 && $2 == "T" { home[$3] = n }
NF == 2 && $1 == "U" { uses[n, ++n_uses[n]] = $2 }

END {
  if (n == 0) {
    print "no object files"
    exit 2
  }
  for (i = 1; i <= n; i++)
    for (k = 1; k <= n_uses[i]; k++) {
      to = uses[i, k]
      if (to in home) calls[i, home[to]] = 1
    }
  for (via = 1; via <= n; via++)
    for (i = 1; i <= n; i++)
      if ((i, via) in calls)
        for (j = 1; j <= n; j++)
          if ((via, j) in calls) calls[i, j] = 1
  for (i = 1; i <= n; i++) {
    size = 0
    names = ""
    for (j = 1; j <= n; j++)
      if (i == j || ((i, j) in calls && (j, i) in calls)) {
        size++
        names = names " " files[j]
      }
    if (size > largest) {
      largest = size
      which = names
    }
  }
  print largest ":" which
  exit largest > most + 0
}
