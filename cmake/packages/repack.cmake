# Run by cpack on the packages that it has made: libprotean has a trigger for the cache of the loader, as the policy of
# Debian asks, so the scripts by which cpack would call ldconfig go. The size counts a file once that has several links.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  get_filename_component(folder ${package} DIRECTORY)
  set(tree ${folder}/repacked)
  file(REMOVE_RECURSE ${tree})
  execute_process(COMMAND dpkg-deb --raw-extract ${package} ${tree} COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE ${tree}/DEBIAN/postinst ${tree}/DEBIAN/postrm)
  execute_process(COMMAND du --summarize --apparent-size --block-size=1024 --exclude=DEBIAN ${tree} OUTPUT_VARIABLE size
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "^[0-9]+" size "${size}")
  file(READ ${tree}/DEBIAN/control control)
  string(REGEX REPLACE "Installed-Size: [0-9]+" "Installed-Size: ${size}" control "${control}")
  file(WRITE ${tree}/DEBIAN/control "${control}")
  execute_process(COMMAND dpkg-deb --root-owner-group --build ${tree} ${package} OUTPUT_QUIET
    COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${tree})
endforeach()
