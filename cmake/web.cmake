# Builds the dashboard (web/) into one file that is embedded into the program. Nothing is rebuilt
# while package-lock.json and the sources stay as they are.
#
# fettle_web_pack(<variable>)  sets the variable to the pack's path.
function(fettle_web_pack result)
  find_program(FETTLE_NPM npm)
  find_program(FETTLE_NODE node)
  if(NOT FETTLE_NPM OR NOT FETTLE_NODE)
    message(FATAL_ERROR "the dashboard needs Node.js 18 or newer with npm: install nodejs and npm "
      "(./dev does), or build without the dashboard with -DFETTLE_DASHBOARD=OFF")
  endif()
  set(web ${PROJECT_SOURCE_DIR}/web)
  set(out ${CMAKE_BINARY_DIR}/web)
  set(installed ${out}/npm-ci.stamp)
  set(pack ${out}/dashboard.pack)
  add_custom_command(OUTPUT ${installed}
    COMMAND ${CMAKE_COMMAND} -E env PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1
            ${FETTLE_NPM} ci --no-audit --no-fund --loglevel=error
    COMMAND ${CMAKE_COMMAND} -E touch ${installed}
    DEPENDS ${web}/package.json ${web}/package-lock.json ${web}/.npmrc
    WORKING_DIRECTORY ${web} COMMENT "Installing the dashboard's packages" VERBATIM)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${web}/src/* ${web}/public/*)
  add_custom_command(OUTPUT ${pack}
    COMMAND ${FETTLE_NODE} ${web}/node_modules/vite/bin/vite.js build --logLevel warn --emptyOutDir
            --outDir ${out}/dist
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/cmake/pack_web.py ${out}/dist ${pack}
    DEPENDS ${installed} ${sources} ${web}/index.html ${web}/vite.config.ts ${web}/tsconfig.json
            ${PROJECT_SOURCE_DIR}/cmake/pack_web.py
    WORKING_DIRECTORY ${web} COMMENT "Building the dashboard" VERBATIM)
  set(${result} ${pack} PARENT_SCOPE)
endfunction()
