// SPDX-License-Identifier: GPL-2.0-only

// Calls from many goroutines, on their small stacks, with a program started between.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

func main() {
	var all sync.WaitGroup
	var lock sync.Mutex
	sum := 0
	for i := 0; i < 50; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for j := 0; j < 500; j++ {
				os.Getppid()
			}
			time.Sleep(time.Millisecond)
			lock.Lock()
			sum += i
			lock.Unlock()
		}(i)
	}
	all.Wait()
	output, err := exec.Command("echo", "started").Output()
	fmt.Println(sum, string(output), err)
}
