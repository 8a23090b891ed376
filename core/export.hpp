// What the shared library shows. It is compiled with hidden visibility. A program can link with everything that a
// public header declares in `namespace PROTEAN_EXPORT protean`, also with vtables and type information of its classes:
// exceptions and dynamic_cast across the border of the library need them. A function template says PROTEAN_EXPORT
// itself, since compilers give an explicit instantiation the visibility of its template, not of the namespace.
// PROTEAN_HIDDEN takes a part of such a namespace out again.
#pragma once
#if defined(__GNUC__)
#define PROTEAN_EXPORT [[gnu::visibility("default")]]
#define PROTEAN_HIDDEN [[gnu::visibility("hidden")]]
#else
#define PROTEAN_EXPORT
#define PROTEAN_HIDDEN
#endif
