# Who may include whom. Run with the names of the files below src/,
# include/gloo_c/ and examples/ as arguments, relative to the project; prints one
# line per violation and exits 1 when there is one.
#
#   parts[x]: the folders of src/ that x may include besides itself and gloo_c/;
#             those of the engine and of rendezvous are parts of their own
#   libs[x]:  what it may use besides the C standard library:
#             "-" nothing, "system" the operating system, "uv" that and libuv,
#             "locks" libuv alone

BEGIN {
  law("core", "", "system")
  law("windows", "core observe", "uv")
  law("kernels", "core", "system")
  law("security", "core", "system")
  law("net", "core security", "uv")
  law("plan", "core", "-")
  law("proof", "core plan", "-")
  law("algorithms", "core plan", "-")
  law("memory", "core net", "uv")
  law("transport", "core kernels security", "-")
  law("transport_inproc", "core kernels memory transport", "uv")
  law("transport_shm", "core kernels memory net security transport", "uv")
  law("transport_tcp", "core net security transport", "uv")
  law("transport_ibv", "core kernels memory net transport", "uv")
  law("rendezvous/store", "core net security", "uv")
  law("rendezvous/launch", "core net security rendezvous/store", "uv")
  below = "core kernels plan transport memory"
  engine("state", "locks")
  engine("wire", "-")
  engine("match", "-")
  engine("memory", "-")
  engine("run", "-")
  engine("rma", "-")
  engine("life", "-")
  engine("contexts", "-")
  engine("failure", "-")
  engine("drive", "locks")
  law("engine", "plan transport engine/state engine/contexts engine/drive", "-")
  below = below " engine"
  engine("entry", "-")
  law("rendezvous/join", "core kernels security net plan algorithms engine rendezvous/store", "uv")
  law("observe", "core kernels net algorithms engine", "uv")
  law("api", "core kernels security net plan algorithms memory transport transport_inproc " \
      "transport_shm transport_tcp transport_ibv engine rendezvous/store rendezvous/launch " \
      "rendezvous/join observe", "uv")
  law("gloo_c", "", "-")
  law("examples", "", "system")

  n = split("assert complex ctype errno fenv float inttypes iso646 limits " \
            "locale math setjmp signal stdalign stdarg stdatomic stdbool " \
            "stddef stdint stdio stdlib stdnoreturn string tgmath threads " \
            "time uchar wchar wctype", names, " ")
  for (i = 1; i <= n; i++) standard[names[i] ".h"] = 1
}

function law(part, may_include, may_use) {
  known[part] = 1
  parts[part] = " " part " " may_include " "
  libs[part] = may_use
}

# The next part of the engine knows those before it.
function engine(part, may_use) {
  law("engine/" part, below, may_use)
  below = below " engine/" part
}

# Of a path below src/, or of what is included.
function part_of(path, names) {
  split(path, names, "/")
  if (names[1] ~ /^(engine|rendezvous)$/ && 3 in names) return names[1] "/" names[2]
  return names[1]
}

function complain(text) {
  printf "%s:%d: %s\n", FILENAME, FNR, text
  violations++
}

function check_system(part, name, use) {
  use = libs[part]
  # Clocks belong to transports, so that a virtual one can drive the engine.
  if (name == "time.h" && use != "system" && use != "uv") {
    complain(part " may not look at clocks: no <time.h>")
    return
  }
  if (name in standard) return
  if (name ~ /^openssl\//) {
    # What others see of it are headers that name none of its types.
    if (FILENAME !~ /^src\/(security\/|net\/tls)[^\/]*\.c$/)
      complain("<" name "> is for the sources of src/security and of TLS, and for no header")
  } else if (name ~ /^infiniband\//) {
    if (FILENAME !~ /^src\/transport_ibv\//)
      complain("<" name "> is for src/transport_ibv")
  } else if (name ~ /^(cuda|rdma)/) {
    complain("<" name "> is for the folder that exists for it")
  } else if (name == "uv.h") {
    if (FILENAME == "examples/event_loop.c") return # its loop, not ours
    if (use != "uv" && use != "locks") complain(part " may not use libuv")
  } else if (use != "system" && use != "uv") {
    complain(part " may use the C standard library only, not <" name ">")
  }
}

# An algorithm knows the builder, and what several of them share; the list
# and the selector of the same folder know plans as well.
function check_algorithm(file, name) {
  if (file ~ /\/(registry|select|select_blocks|select_intra_node|choose|tuning)\.[ch]$/) return
  if (name == "plan/builder.h" || name == "core/collective.h") return
  if (name ~ /^algorithms\/(two_level|fused|radix)\.h$/) return
  complain("an algorithm may include \"plan/builder.h\" only, not \"" name "\"")
}

function check_project(part, file, name, target) {
  target = name
  if (target !~ /\//) {
    target = part
  } else {
    target = part_of(target)
  }
  if (part == "gloo_c" && target != "gloo_c") {
    complain("a public header may include public headers only, not \"" name "\"")
  } else if (target == "gloo_c") {
    return
  } else if (!(target in known)) {
    complain("\"" name "\" is in no folder of src/")
  } else if (index(parts[part], " " target " ") == 0) {
    complain(part " may not include \"" name "\"; it may include:" parts[part])
  } else if (part == "algorithms") {
    check_algorithm(file, name)
  }
}

FNR == 1 {
  files++
  split(FILENAME, path, "/")
  part = path[1] == "examples" ? "examples" : path[2]
  if (path[1] == "src") part = part_of(substr(FILENAME, 5))
  if (!(part in known)) complain("no law for the folder " part ": add one")
}

/^[ \t]*#[ \t]*include/ && (part in known) {
  name = $0
  sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
  system_header = name ~ /^</ && name !~ /^<gloo_c\//
  if (name !~ /^[<"]/) complain("#include of something that is not a file name")
  sub(/^./, "", name)
  sub(/[>"].*/, "", name)
  if (name ~ /\.\./) {
    complain("\"" name "\" climbs out of its folder")
  } else if (system_header) {
    check_system(part, name)
  } else {
    check_project(part, FILENAME, name)
  }
}

END {
  if (files == 0) print "no files were given"
  exit violations > 0 || files == 0
}
