// Watermill's Redis Streams adapter, driven as hbus_console/bench drives every measured process: it takes its task as
// one JSON argument, says "ready", waits for "go" on stdin and answers "done" with a count and two wall times.
//
//	{"do": "publish", "url": …, "topic": …, "count": …, "size": …, "workers": 64}
//	{"do": "consume", "url": …, "topic": …, "count": …, "workers": 16}
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"
)

const group = "bench"

type task struct {
	Do      string `json:"do"`
	URL     string `json:"url"`
	Topic   string `json:"topic"`
	Count   int64  `json:"count"`
	Size    int    `json:"size"`
	Workers int    `json:"workers"`
}

type report struct {
	Count   int64   `json:"count"`
	Started float64 `json:"started"`
	Ended   float64 `json:"ended"`
}

func main() {
	if len(os.Args) != 2 {
		fail("one argument: the task as JSON")
	}
	var given task
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	options, err := redis.ParseURL(given.URL)
	check(err)
	// A connection for each goroutine: none waits for another's.
	options.PoolSize = given.Workers + 8
	client := redis.NewClient(options)
	check(client.Ping(context.Background()).Err())

	switch given.Do {
	case "publish":
		publish(client, given)
	case "consume":
		consume(client, given)
	default:
		fail("do is publish or consume, not " + given.Do)
	}
}

// publish sends Count messages from Workers goroutines, each confirmed before the goroutine's next.
func publish(client *redis.Client, given task) {
	publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, watermill.NopLogger{})
	check(err)
	body := []byte(strings.Repeat("x", given.Size))

	started := waitForGo()
	var begun atomic.Int64
	var everybody sync.WaitGroup
	for range given.Workers {
		everybody.Add(1)
		go func() {
			defer everybody.Done()
			for begun.Add(1) <= given.Count {
				check(publisher.Publish(given.Topic, message.NewMessage(watermill.NewUUID(), body)))
			}
		}()
	}
	everybody.Wait()
	answer(report{given.Count, started, now()})
}

// consume acknowledges Count messages with Workers subscribers of one group, until the store has all of it.
func consume(client *redis.Client, given task) {
	running, stop := context.WithCancel(context.Background())
	defer stop()
	var handled atomic.Int64
	subscribers := make([]*redisstream.Subscriber, given.Workers)
	for number := range subscribers {
		made, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client:        client,
			ConsumerGroup: group,
			Consumer:      fmt.Sprintf("bench-%d", number),
		}, watermill.NopLogger{})
		check(err)
		subscribers[number] = made
	}

	started := waitForGo()
	for _, subscriber := range subscribers {
		messages, err := subscriber.Subscribe(running, given.Topic)
		check(err)
		go func() {
			for each := range messages {
				each.Ack()
				handled.Add(1)
			}
		}()
	}
	for handled.Load() < given.Count {
		time.Sleep(time.Millisecond)
	}
	for pending(client, given.Topic) > 0 {
		time.Sleep(time.Millisecond)
	}
	answer(report{handled.Load(), started, now()})
}

func pending(client *redis.Client, topic string) int64 {
	found, err := client.XPending(context.Background(), topic, group).Result()
	check(err)
	return found.Count
}

func waitForGo() float64 {
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "go" {
		fail("no start signal")
	}
	return now()
}

func answer(figures report) {
	line, err := json.Marshal(figures)
	check(err)
	fmt.Println("done " + string(line))
}

func now() float64 {
	return float64(time.Now().UnixNano()) / 1e9
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(words string) {
	fmt.Fprintln(os.Stderr, "watermill: "+words)
	os.Exit(1)
}
