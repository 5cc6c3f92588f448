/* Text for people: replacement of control characters, and the form of parts of
 * messages. Each part is a small struct returned by value, for use directly in
 * a call: gli_fail(..., "no key '%s'", gli_quote(key).text). */
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

/* Formats a number with its noun: "1 rank", "2 ranks", "3 processes". */
gli_text gli_count(uint64_t n, const char *noun);

/* Formats a duration: "30 s", "1.5 s", "20 ms", "7 ns"; "no time" for 0. */
gli_text gli_duration(int64_t ns);

typedef struct gli_long_text {
  char text[320];
} gli_long_text;

/* Lists the keys that are missing: "'a', 'b' and 12 more". */
gli_long_text gli_missing_keys(const char *const *keys, const bool *present,
                               size_t n_keys);

/* Lists the ranks that are missing: "rank 3", "ranks 3, 8-15 and 12 more". */
gli_long_text gli_missing_ranks(const bool *present, size_t size);

/* Replaces with blanks everything that a terminal could take for a command, or
 * a log for the end of a line: the ASCII control characters, and those from
 * U+0080 to U+009F, encoded in UTF-8 or as single bytes (8-bit terminals obey
 * these). All other UTF-8 remains. */
void gli_make_printable(char *text);

/* Returns the number of letters to insert, delete or replace to turn one word
 * into the other (Levenshtein, 1966); the length of `b` if that is above 63. */
size_t gli_word_distance(const char *a, const char *b);

/* Returns the length of the UTF-8 character at `s`, or 0 if it is invalid. */
size_t gli_utf8_length(const unsigned char *s);

#endif
