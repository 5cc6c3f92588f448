/* GLOO_API marks exported functions. GLOO_DEPRECATED(text) marks functions that
 * will be removed; the text names their replacement.
 *
 * Example:
 *
 *     GLOO_DEPRECATED("use new_name") void old_name(void);
 */
#ifndef GLOO_C_VISIBILITY_H
#define GLOO_C_VISIBILITY_H

#if defined(__GNUC__)
#define GLOO_API __attribute__((visibility("default")))
#define GLOO_DEPRECATED(text) __attribute__((deprecated(text)))
#else
#define GLOO_API
#define GLOO_DEPRECATED(text)
#endif

#endif
