/* GLOO_API marks what the library exports. */
#ifndef GLOO_C_VISIBILITY_H
#define GLOO_C_VISIBILITY_H

#if defined(__GNUC__)
#define GLOO_API __attribute__((visibility("default")))
#else
#define GLOO_API
#endif

#endif
