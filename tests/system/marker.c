// Found by its file name in the maps of the processes that have it.
int stridio_marker = 1;
