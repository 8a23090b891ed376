#include "apps/command/command_line.hpp"

int main(int argc, char** argv) { return protean::apps::run(argc, argv); }
