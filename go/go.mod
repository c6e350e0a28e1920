module tane

go 1.19
