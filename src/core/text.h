/* Text that a person reads: it holds no control characters, and pieces of
 * messages have a form of their own. Each piece is a small struct returned by
 * value, for use right inside a call: gli_fail(..., "no key '%s'",
 * gli_quote(key).text). */
#ifndef GLI_CORE_TEXT_H
#define GLI_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gli_text {
  char text[80];
} gli_text;

/* Makes a key, job name or variable printable: control characters become \xHH,
 * and a long text ends in "...". */
gli_text gli_quote(const char *text);

/* "30 s", "1.5 s", "20 ms", "7 ns"; "no time" for 0. */
gli_text gli_duration(int64_t ns);

typedef struct gli_long_text {
  char text[320];
} gli_long_text;

/* The keys that are not present: "'a', 'b' and 12 more". */
gli_long_text gli_missing_keys(const char *const *keys, const bool *present,
                               size_t n_keys);

/* The ranks that are not present: "rank 3", "ranks 3, 8-15 and 12 more". */
gli_long_text gli_missing_ranks(const bool *present, size_t size);

/* Put a blank in place of whatever a terminal could take for a command, or a
 * log for the end of a line: the control characters of ASCII, and those from
 * U+0080 to U+009F, be they encoded in UTF-8 or single bytes (as which a
 * terminal of 8-bit characters obeys them). All other UTF-8 stays. */
void gli_make_printable(char *text);

#endif
