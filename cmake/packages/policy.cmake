# Run by cpack on what it is about to pack: each package has its copyright and changelog in /usr/share/doc, and man
# pages are compressed. SOURCE_DATE_EPOCH in the environment makes the date of the changelog the same in each run.
file(READ ${CPACK_PROTEAN_SOURCES}/LICENSE license)
# The heading and the line of the copyright are fields of their own.
string(REGEX REPLACE "^.*the Protean authors\n+" "" license "${license}")
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
set(copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Protean

Files: *
Copyright: 2026 The Protean authors
License: BSD-3-clause

License: BSD-3-clause
 ${license}
")
set(matrices "
Files: usr/share/doc/Protean/problems/matrices/*
Copyright: the authors that usr/share/doc/Protean/problems/matrices/README.md names
License: CC-BY-4.0

License: CC-BY-4.0
 The SuiteSparse Matrix Collection is published under the Creative Commons
 Attribution 4.0 International licence: share and adapt it for any purpose, with
 appropriate credit and an indication of changes. The files here have the
 numbers of the collection, packed with xz.
")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog "protean (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; CHANGELOG.md of the sources has the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  set(documents ${usr}/share/doc/${package})
  if(component STREQUAL "documentation")
    file(WRITE ${documents}/copyright "${copyright}${matrices}")
    file(REMOVE ${usr}/share/doc/Protean/LICENSE)  # it is in the copyright
  else()
    file(WRITE ${documents}/copyright "${copyright}")
  endif()
  file(WRITE ${documents}/changelog.Debian "${changelog}")
  file(GLOB pages ${usr}/share/man/man*/*.[0-9])
  execute_process(COMMAND gzip -9nf ${documents}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
  # Names of libraries, which are right on every machine, in place of their files on this one.
  file(GLOB_RECURSE pkgconfig ${usr}/protean.pc)
  foreach(file IN LISTS pkgconfig)
    file(READ ${file} text)
    string(REGEX REPLACE "/usr/lib/[^ ]*/lib([A-Za-z0-9_-]+)\\.(so|a)[0-9.]*" "-l\\1" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
  execute_process(COMMAND chmod -R go-w,a+rX ${usr} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
