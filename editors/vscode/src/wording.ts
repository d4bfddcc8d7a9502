// Sentences about building the engine. They are the Makefile's, word for word; a test compares them.

export const NEEDS_PYTHON = 'midfill needs Python 3.11 or newer';

export const BUILD_TIME = 'the engine is built from source, which takes 6 to 10 minutes on two cores';

export const NEEDS_COMPILER =
  'The engine (llama.cpp) is built from source and needs a C and a C++ compiler. Debian and Ubuntu: apt install build-essential; ' +
  'Fedora: dnf install gcc-c++; Arch: pacman -S base-devel; Alpine: apk add build-base; macOS: xcode-select --install.';
